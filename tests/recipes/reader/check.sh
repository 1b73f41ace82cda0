# format = "svmlight" reads, refuses what is not of the form, and is in help().
printf '1 3:1 7:2.5 # a note\n-1 7:1\n' >"$TOP/good.txt"
printf '1 3:1\n1 seven:1\n' >"$TOP/bad.txt"
"$NEW" -e "
  local d = fopo.data.read('$TOP/good.txt', {format = 'svmlight'})
  assert(d.n_users == 2 and d.n_items == 8 and d.nnz == 3 and d.format == 'svmlight')
  local ids, values = d:row(1)
  assert(ids:get(1, 2) == 8 and values[2] == 2.5) -- ids are 0-based in the file
  local ok, why = pcall(fopo.data.read, '$TOP/bad.txt', {format = 'svmlight'})
  assert(not ok and why:find('line 2, column 2') and why:find('seven:1'), why)"
"$NEW" -e 'help "fopo.data.read"' | grep -q svmlight
