"""What the website answers under /version."""

VERSION = "2.4.0"
