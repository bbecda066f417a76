"""One task that is met once, solved by whatever is cheapest."""
