-- Runs with programs from 0017 on.
-- What lists are searched for, in lower case: names, e-mail addresses, telephone numbers, sources.
alter table copied_records add column search_text text;
-- Trigrams find a part of a text by an index. Where the user may not create the extension, searches read all rows of a
-- resource, until an administrator creates both: see docs/copy.md.
do $$
begin
  create extension if not exists pg_trgm;
  create index copied_records_search on copied_records using gin (search_text gin_trgm_ops) where not is_deleted;
exception when others then
  raise notice 'copied_records has no index for searches: %', sqlerrm;
end
$$;
