"""Tables, text, progress and HTML for people."""
