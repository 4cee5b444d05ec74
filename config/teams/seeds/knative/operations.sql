-- What the application used on average, by month, and what a unit of each resource costs in a month.
create table consumption (
  number integer primary key,
  month text not null,
  cpu real not null,
  memory integer not null
);
insert into consumption values
  (1, 'August', 21.33, 8200),
  (2, 'September', 27.56, 8117),
  (3, 'October', 33.17, 9217),
  (4, 'November', 34.51, 10117);

create table price (
  kind text not null,
  unit text not null,
  price real not null,
  primary key (kind, unit)
);
insert into price values
  ('cpu', 'cores', 12.99),
  ('memory', 'mib', 0.016),
  ('memory', 'gib', 16.384);
