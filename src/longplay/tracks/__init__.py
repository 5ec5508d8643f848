"""What an agent sees and answers, one module per track."""
