-- A small movie database: some well-known films, who made them, and what twelve invented people
-- think of them. It is run once, when the database is made.

create table movie (title text primary key, year integer not null) strict;
create table in_genre (movie text not null references movie, genre text not null, primary key (movie, genre)) strict;
create table acted_in (person text not null, movie text not null references movie, primary key (person, movie)) strict;
create table directed (person text not null, movie text not null references movie, primary key (person, movie)) strict;
create table rating (
  user text not null,
  movie text not null references movie,
  rating integer not null check (rating between 1 and 5),
  primary key (user, movie)
) strict;

-- Each film in one line: genres, directors and actors are lists with | between.
create table film (title text, year integer, genres text, directors text, actors text);
insert into film values
  ('Alien', 1979, 'Horror|Sci-Fi', 'Ridley Scott', 'Sigourney Weaver|Tom Skerritt|Ian Holm'),
  ('Apollo 13', 1995, 'Adventure|Drama|IMAX', 'Ron Howard', 'Tom Hanks|Bill Paxton|Kevin Bacon'),
  ('Back to the Future', 1985, 'Adventure|Comedy|Sci-Fi', 'Robert Zemeckis', 'Michael J. Fox|Christopher Lloyd|Lea Thompson'),
  ('Bill & Ted''s Excellent Adventure', 1989, 'Adventure|Comedy|Sci-Fi', 'Stephen Herek', 'Keanu Reeves|Alex Winter|George Carlin'),
  ('Blade Runner', 1982, 'Action|Sci-Fi|Thriller', 'Ridley Scott', 'Harrison Ford|Rutger Hauer|Sean Young'),
  ('Casablanca', 1942, 'Drama|Romance', 'Michael Curtiz', 'Humphrey Bogart|Ingrid Bergman|Paul Henreid'),
  ('Double Indemnity', 1944, 'Crime|Drama|Film-Noir', 'Billy Wilder', 'Fred MacMurray|Barbara Stanwyck|Edward G. Robinson'),
  ('Fight Club', 1999, 'Action|Crime|Drama|Thriller', 'David Fincher', 'Brad Pitt|Edward Norton|Helena Bonham Carter'),
  ('Finding Nemo', 2003, 'Adventure|Animation|Children|Comedy', 'Andrew Stanton', 'Albert Brooks|Ellen DeGeneres|Alexander Gould'),
  ('Forrest Gump', 1994, 'Comedy|Drama|Romance|War', 'Robert Zemeckis', 'Tom Hanks|Robin Wright|Gary Sinise'),
  ('Get Shorty', 1995, 'Comedy|Crime|Thriller', 'Barry Sonnenfeld', 'John Travolta|Gene Hackman|Rene Russo|Danny DeVito'),
  ('Goodfellas', 1990, 'Crime|Drama', 'Martin Scorsese', 'Robert De Niro|Ray Liotta|Joe Pesci'),
  ('Grease', 1978, 'Comedy|Musical|Romance', 'Randal Kleiser', 'John Travolta|Stockard Channing|Jeff Conaway'),
  ('Heat', 1995, 'Action|Crime|Thriller', 'Michael Mann', 'Al Pacino|Robert De Niro|Val Kilmer'),
  ('Ice Age: The Great Egg-Scapade', 2016, 'Adventure|Animation|Children|Comedy', 'Ricardo Curtis', 'Ray Romano|John Leguizamo|Denis Leary|Queen Latifah'),
  ('Jaws', 1975, 'Action|Horror', 'Steven Spielberg', 'Roy Scheider|Robert Shaw|Richard Dreyfuss'),
  ('John Wick', 2014, 'Action|Thriller', 'Chad Stahelski', 'Keanu Reeves|Michael Nyqvist|Alfie Allen|Willem Dafoe|John Leguizamo'),
  ('Jurassic Park', 1993, 'Action|Adventure|Sci-Fi|Thriller', 'Steven Spielberg', 'Sam Neill|Laura Dern|Jeff Goldblum'),
  ('Keanu', 2016, 'Action|Comedy', 'Peter Atencio', 'Keegan-Michael Key|Jordan Peele|Method Man|Tiffany Haddish'),
  ('Man of Tai Chi', 2013, 'Action', 'Keanu Reeves', 'Tiger Chen|Keanu Reeves|Karen Mok'),
  ('March of the Penguins', 2005, 'Documentary', 'Luc Jacquet', 'Morgan Freeman'),
  ('Neighbors 2: Sorority Rising', 2016, 'Comedy', 'Nicholas Stoller', 'Seth Rogen|Zac Efron|Rose Byrne|Chloë Grace Moretz'),
  ('Psycho', 1960, 'Crime|Horror', 'Alfred Hitchcock', 'Anthony Perkins|Janet Leigh|Vera Miles'),
  ('Pulp Fiction', 1994, 'Comedy|Crime|Drama|Thriller', 'Quentin Tarantino', 'John Travolta|Samuel L. Jackson|Uma Thurman|Bruce Willis'),
  ('Raiders of the Lost Ark', 1981, 'Action|Adventure', 'Steven Spielberg', 'Harrison Ford|Karen Allen|Paul Freeman'),
  ('Saving Private Ryan', 1998, 'Action|Drama|War', 'Steven Spielberg', 'Tom Hanks|Tom Sizemore|Matt Damon'),
  ('Seven', 1995, 'Mystery|Thriller', 'David Fincher', 'Brad Pitt|Morgan Freeman|Gwyneth Paltrow'),
  ('Singin'' in the Rain', 1952, 'Comedy|Musical|Romance', 'Gene Kelly|Stanley Donen', 'Gene Kelly|Debbie Reynolds|Donald O''Connor'),
  ('Some Like It Hot', 1959, 'Comedy|Crime', 'Billy Wilder', 'Marilyn Monroe|Tony Curtis|Jack Lemmon'),
  ('Speed', 1994, 'Action|Romance|Thriller', 'Jan de Bont', 'Keanu Reeves|Sandra Bullock|Dennis Hopper'),
  ('Spirited Away', 2001, 'Adventure|Animation|Fantasy', 'Hayao Miyazaki', 'Rumi Hiiragi|Miyu Irino'),
  ('Star Wars', 1977, 'Action|Adventure|Sci-Fi', 'George Lucas', 'Mark Hamill|Harrison Ford|Carrie Fisher'),
  ('The Big Lebowski', 1998, 'Comedy|Crime', 'Joel Coen', 'Jeff Bridges|John Goodman|Julianne Moore|Steve Buscemi'),
  ('The Big Sleep', 1946, 'Crime|Film-Noir|Mystery', 'Howard Hawks', 'Humphrey Bogart|Lauren Bacall'),
  ('The Godfather', 1972, 'Crime|Drama', 'Francis Ford Coppola', 'Marlon Brando|Al Pacino|James Caan|Diane Keaton'),
  ('The Good, the Bad and the Ugly', 1966, 'Action|Adventure|Western', 'Sergio Leone', 'Clint Eastwood|Eli Wallach|Lee Van Cleef'),
  ('The Matrix', 1999, 'Action|Sci-Fi|Thriller', 'Lana Wachowski|Lilly Wachowski', 'Keanu Reeves|Laurence Fishburne|Carrie-Anne Moss|Hugo Weaving'),
  ('The Matrix Reloaded', 2003, 'Action|Adventure|IMAX|Sci-Fi|Thriller', 'Lana Wachowski|Lilly Wachowski', 'Keanu Reeves|Laurence Fishburne|Carrie-Anne Moss|Hugo Weaving'),
  ('The Shawshank Redemption', 1994, 'Crime|Drama', 'Frank Darabont', 'Tim Robbins|Morgan Freeman'),
  ('Top Gun', 1986, 'Action|Romance', 'Tony Scott', 'Tom Cruise|Kelly McGillis|Val Kilmer'),
  ('Toy Story 3', 2010, 'Adventure|Animation|Children|Comedy|Fantasy|IMAX', 'Lee Unkrich', 'Tom Hanks|Tim Allen|Joan Cusack'),
  ('Unforgiven', 1992, 'Drama|Western', 'Clint Eastwood', 'Clint Eastwood|Gene Hackman|Morgan Freeman'),
  ('Vertigo', 1958, 'Drama|Mystery|Romance|Thriller', 'Alfred Hitchcock', 'James Stewart|Kim Novak');

insert into movie select title, year from film;
insert into in_genre select title, value from film, json_each('["' || replace(genres, '|', '","') || '"]');
insert into directed select value, title from film, json_each('["' || replace(directors, '|', '","') || '"]');
insert into acted_in select value, title from film, json_each('["' || replace(actors, '|', '","') || '"]');
drop table film;

create table opinion (user text, ratings text);
insert into opinion values
  ('ada', '{"Keanu": 5, "The Matrix": 5, "The Matrix Reloaded": 3, "John Wick": 5, "Man of Tai Chi": 3, "Pulp Fiction": 4, "The Big Lebowski": 4, "Blade Runner": 4, "Alien": 4, "Fight Club": 4}'),
  ('ben', '{"Keanu": 5, "Neighbors 2: Sorority Rising": 5, "The Matrix": 4, "Speed": 4, "Bill & Ted''s Excellent Adventure": 4, "Back to the Future": 4, "Top Gun": 3, "Star Wars": 5, "Raiders of the Lost Ark": 4}'),
  ('chloe', '{"Keanu": 5, "Ice Age: The Great Egg-Scapade": 5, "Forrest Gump": 4, "Finding Nemo": 4, "Jurassic Park": 4, "Spirited Away": 5}'),
  ('dev', '{"Ice Age: The Great Egg-Scapade": 5, "The Matrix": 5, "The Matrix Reloaded": 3, "John Wick": 4, "Pulp Fiction": 5, "Get Shorty": 3, "Goodfellas": 4, "Heat": 4, "Seven": 4, "Fight Club": 5}'),
  ('eli', '{"Neighbors 2: Sorority Rising": 4, "Some Like It Hot": 4, "Speed": 3, "Top Gun": 4, "Saving Private Ryan": 4, "Psycho": 3, "Apollo 13": 4}'),
  ('finn', '{"Ice Age: The Great Egg-Scapade": 4, "The Matrix": 4, "Back to the Future": 4, "Toy Story 3": 4, "Bill & Ted''s Excellent Adventure": 3, "Jaws": 4, "Jurassic Park": 5, "Star Wars": 5, "Raiders of the Lost Ark": 5}'),
  ('gita', '{"Ice Age: The Great Egg-Scapade": 5, "Neighbors 2: Sorority Rising": 5, "Finding Nemo": 4, "Grease": 3, "Jurassic Park": 4, "Spirited Away": 5, "March of the Penguins": 4}'),
  ('hugo', '{"Neighbors 2: Sorority Rising": 4, "The Big Lebowski": 5, "Pulp Fiction": 4, "Get Shorty": 3, "The Godfather": 5, "Goodfellas": 5, "Heat": 4, "John Wick": 4, "The Good, the Bad and the Ugly": 4}'),
  ('ines', '{"Forrest Gump": 5, "Toy Story 3": 4, "Grease": 3, "Some Like It Hot": 5, "Singin'' in the Rain": 4, "Casablanca": 5, "Vertigo": 4, "The Shawshank Redemption": 5, "March of the Penguins": 4}'),
  ('jun', '{"The Matrix": 5, "The Matrix Reloaded": 3, "Pulp Fiction": 4, "Back to the Future": 5, "Alien": 5, "Blade Runner": 5, "Seven": 3, "Star Wars": 4, "Spirited Away": 4}'),
  ('kofi', '{"Forrest Gump": 4, "Back to the Future": 4, "Singin'' in the Rain": 4, "The Godfather": 5, "Jaws": 4, "Saving Private Ryan": 5, "Unforgiven": 4, "The Good, the Bad and the Ugly": 5, "The Shawshank Redemption": 5, "Apollo 13": 4}'),
  ('lena', '{"Forrest Gump": 4, "The Big Lebowski": 4, "Some Like It Hot": 4, "The Godfather": 5, "Blade Runner": 4, "Unforgiven": 4, "The Shawshank Redemption": 5, "Casablanca": 5, "The Big Sleep": 4, "Double Indemnity": 5, "Psycho": 4, "Vertigo": 5}');
insert into rating select user, key, value from opinion, json_each(ratings);
drop table opinion;

-- What people know by heart is rarely the whole name, so names are found by their words.
create virtual table known using fts5 (name, kind unindexed, tokenize = 'unicode61 remove_diacritics 2');
insert into known select title, 'movie' from movie;
insert into known select person, 'person' from acted_in union select person, 'person' from directed;

-- How a film is told to a model.
create view movie_text (movie, text) as
select title,
  'title:' || title
  || char(10) || 'actors:' || coalesce((select group_concat(person, ', ') from acted_in where movie = title), '')
  || char(10) || 'genre:' || coalesce((select group_concat(genre, ', ') from in_genre where movie = title), '')
from movie;
