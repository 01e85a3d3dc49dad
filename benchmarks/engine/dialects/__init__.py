"""What servers are asked and how they answer, one module per dialect; `base.Dialect` is what each offers, `table` the
list of them. A dialect turns bytes into the calls of `answer.Answer`; it knows no socket and reads no clock."""
