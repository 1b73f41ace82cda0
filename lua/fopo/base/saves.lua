-- What a save accepts, a load accepts. With FOPO_CHECK_SAVES in the environment, as the tests have
-- it, every file that an object writes is read again at once. One that cannot be read ends the
-- program, so that no handler of errors hides it.
local checks = os.getenv "FOPO_CHECK_SAVES"

-- save(object, path, ...), followed by read(object, path), which raises if the file cannot be read.
return function(what, save, read)
  if not checks then return save end
  return function(object, path, ...)
    save(object, path, ...)
    local ok, why = pcall(read, object, path)
    -- Ctrl-C says nothing of the file; whatever goes on sees it too
    if ok or tostring(why):find("^interrupted while") then return end
    io.stderr:write(("FOPO_CHECK_SAVES: a %s was written that cannot be read: %s\n"):format(what,
                                                                                          why))
    os.exit(70)
  end
end
