create table event (
  call_key text primary key,
  title text not null,
  datetime text not null
);
