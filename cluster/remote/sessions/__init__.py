"""Jobs and tasks in tmux sessions on hosts, and what they leave behind."""
