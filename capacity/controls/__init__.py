"""An approved setting as files a person can deploy. Empty until the controls are built."""
