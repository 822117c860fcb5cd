"""Events to everybody who has subscribed, and requests with their replies."""
