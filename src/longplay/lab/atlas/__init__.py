"""Records of many experiments -> the matrix; Every Eval Ever."""
