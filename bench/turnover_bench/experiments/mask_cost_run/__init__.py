"""What do masks cost in the image network of `turnover run`, trained as there?"""
