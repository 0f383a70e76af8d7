def toarray: if isarray then . else [.] end;
def IN(source): any(source == .; .);
def IN(source; wanted): any(source == wanted; .);
def INDEX(stream; key): reduce stream as $row ({}; . + {($row | key | tostring): $row});
def INDEX(key): INDEX(.[]; key);
def leaf_paths: paths(scalars);
def ascii: [.] | implode;
def @csv:
  [.[] | if isstring then "\"" + (split("\"") | join("\"\"")) + "\""
    elif isarray or isobject then error("an array or object cannot be a cell of CSV")
    elif . == null then "" else tostring end] | join(",");
def @tsv:
  [.[] | if isstring
    then split("\\") | join("\\\\") | split("\t") | join("\\t") | split("\n") | join("\\n") | split("\r") | join("\\r")
    elif isarray or isobject then error("an array or object cannot be a cell of TSV")
    elif . == null then "" else tostring end] | join("\t");
def strptime($format):
  if $format | test("%[^a-zA-Z%]*Q") then error("a time zone by name differs from node to node; use an offset (%z)")
  else unchecked_strptime($format) end;
def sub(re; f; flags):
  [split_matches(re; flags)[] | if isarray then [capture_of_match | f] else [.] end]
  | if all(length == 1) then map(.[0]) | add + "" else reduce .[] as $options (""; . + $options[]) end;
def gsub(re; f; flags): sub(re; f; "g" + flags);
def sub(re; f): sub(re; f; "");
def gsub(re; f): sub(re; f; "g");
