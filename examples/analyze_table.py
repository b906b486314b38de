"""From a table to figures. Run it as a script, or cell by cell in an editor that supports `# %%`."""

# %% Which hyperparameters matter, over the whole space and among the best quarter
import hpobench_nmt as hb
from hpobench_nmt.evaluation.importance import importance
from hpobench_nmt.evaluation.sensitivity import sensitivity
from hpobench_nmt.render.plots.table_analyses import plot_importance, plot_search_cost

table = hb.load_table("sotu-ngram")
parts = [importance(table.response()), importance(table.response(), best_share=0.25)]
print(parts[0].effects.head())
plot_importance(parts).savefig("importance.png")

# %% Would a grid search have found an equally good configuration?
found = sensitivity(table.response(), tolerance=1.0)
print(found.grids)
plot_search_cost(found).savefig("search.png")
