-- What the words of other libraries and of papers are called here. On the left the options and
-- methods that the words on the right can mean; which one, follows from what there is.
local synonyms = {}

local words = {
  dim = "factors n_factors num_factors components n_components no_components rank embedding_dim "
        .. "embedding_size latent_dim n_dims",
  ["neighbours n"] = "neighbors n_neighbors n_neighbours num_neighbors K k topk top_k top_n",
  ["k n"] = "cutoff cutoffs at topk top_k top_n N",
  ["l2 weight_decay lambda"] = "lambda lambda_ reg regularization regularisation reg_weight "
                               .. "l2_reg lambda_reg alpha",
  lr = "learning_rate step_size lrate eta",
  ["epochs iterations steps"] = "n_epochs num_epochs max_epochs n_iter n_iterations max_iter "
                                .. "iters num_iterations maxiter",
  batch = "batch_size batchsize minibatch bs train_batch_size",
  ["samples tail"] = "n_samples num_samples n_negatives num_negatives negatives neg_samples "
                     .. "n_neg S",
  seed = "random_state random_seed rng",
  ["temperature tau"] = "temp tau softmax_temperature",
  ["test train"] = "test_size test_ratio test_fraction train_size holdout",
  valid = "val validation val_data valid_data eval_set val_size valid_size validation_data",
  ["exclude seen"] = "filter_seen remove_seen exclude_seen filter_already_liked_items masked mask",
  min_items = "min_interactions min_user_interactions user_min k_core kcore",
  gradient = "estimator",
  optim = "optimizer optimiser",
  objective = "loss loss_fn loss_function criterion",
  policy = "model net agent",
  patience = "early_stopping early_stop stopping_rounds early_stopping_patience",
  ["best_by by"] = "metric metrics monitor valid_metric",
  view = "verbose progress quiet silent show_progress progress_bar",
  every = "log_every eval_every log_interval print_every",
  separator = "sep delimiter",
  user = "user_col userid user_id uid",
  item = "item_col itemid item_id iid",
  time = "timestamp timestamp_col time_col",
  hidden = "hidden_size hidden_sizes hidden_units layers n_hidden mlp_hidden_size",
  activation = "act nonlinearity",
  similarity = "metric distance measure",
  shrink = "shrinkage damping",
  propensity = "pscore logging_prob action_prob",
  index = "ann searcher faiss",
  checkpoint = "save_path checkpoint_path model_dir",
  run = "train fit learn partial_fit",
  ["recommend best"] = "predict topk top_k recommend_items",
  data = "train_set interactions user_items dataset",
  schedule = "scheduler lr_scheduler lr_schedule",
  clip = "grad_clip clip_grad_norm max_grad_norm gradient_clip",
  trials = "n_trials n_calls num_trials",
  read = "load load_csv read_csv from_csv from_dataframe open_csv",
  trainer = "fit learner Trainer",
  sessions = "split train_test_split",
  popular = "popularity most_popular mostpop toppop pop",
  item_knn = "knn itemknn ItemKNN item_cf itemcf",
  als = "mf wrmf ials implicit_als",
  jobs = "n_jobs workers num_workers n_threads num_threads",
}

local meanings = {} -- by a word the names that it can mean
for names, list in pairs(words) do
  for word in list:gmatch("%S+") do
    local known = meanings[word] or {}
    for name in names:gmatch("%S+") do known[#known + 1] = name end
    meanings[word] = known
  end
end
for _, names in pairs(meanings) do table.sort(names) end

-- The names that the word can mean; none if the word is not known.
function synonyms.of(word) return meanings[word] or {} end

-- That of `names` that the word means, or nil.
function synonyms.among(word, names)
  local is_there = {}
  for _, name in ipairs(names) do is_there[name] = true end
  for _, name in ipairs(synonyms.of(word)) do
    if is_there[name] then return name end
  end
end

return synonyms
