-- Runs with programs from 0017 on.
-- The budget of CRM calls where there is no shared cache to keep it: a restart must not forget what was spent.
create table call_budgets (
  name text primary key,
  state text not null
);
