"""What A(x) and a data set say of learning before a step is taken. Start at ``growth``."""
