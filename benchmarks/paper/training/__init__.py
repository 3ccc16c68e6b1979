"""What train.py needs beside the package: data with noisy labels, corrupted images, and tars to carry runs in."""
