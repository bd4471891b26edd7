"""Lightning modules: the recorder (predict) and the bank of estimators (fit)."""
