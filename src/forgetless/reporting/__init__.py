"""Tables and HTML for people."""
