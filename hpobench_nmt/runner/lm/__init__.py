"""Language models in PyTorch: AWD-LSTM and its relatives, their training, and test-time adaptation."""
