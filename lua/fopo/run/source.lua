-- Which commit of a git repository the folder at hand is at. The files of .git are read here,
-- because the git program may run code that a repository names (core.fsmonitor, filters).
local source = {}

local function first_line(path)
  local f <close> = io.open(path, "r")
  return f and f:read("l") or nil
end

-- The folder .git at or above the folder at hand. In a linked work tree, .git is a file that names
-- it.
local function git_folder()
  local up = ""
  for _ = 1, 64 do
    if first_line(up .. ".git/HEAD") then return up .. ".git" end
    local linked = (first_line(up .. ".git") or ""):match("^gitdir: (.+)$")
    if linked then return linked:find("^/") and linked or up .. linked end
    up = up .. "../"
  end
end

-- The hash of a reference by the list of packed references.
local function packed(folder, name)
  local f <close> = io.open(folder .. "/packed-refs", "r")
  for line in f and f:lines() or function() end do
    local hash, found = line:match("^(%x+) (.+)$")
    if found == name then return hash end
  end
end

-- The hash of the commit, or nil.
function source.commit()
  local folder = git_folder()
  if not folder then return nil end
  local common = first_line(folder .. "/commondir")
  if common then common = common:find("^/") and common or folder .. "/" .. common end
  common = common or folder
  local head = first_line(folder .. "/HEAD") or ""
  local name = head:match("^ref: (.+)$")
  if not name then return head:match("^%x+$") end
  local hash = first_line(common .. "/" .. name) or packed(common, name) or ""
  return hash:match("^%x+$")
end

return source
