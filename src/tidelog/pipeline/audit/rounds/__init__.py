"""What happens between the kernels: pieces are chosen, results are brought together."""
