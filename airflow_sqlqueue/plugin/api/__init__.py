"""Routes of the page's API, one module for each view; :mod:`airflow_sqlqueue.plugin.app` lists them."""
