"""Tables of the transport: their layouts, and how to create, find and drop them."""
