// The films of `movies.sql` as a graph. It may be run again, which changes nothing that is
// there but the ratings of the twelve invented people.

CREATE CONSTRAINT movie_title IF NOT EXISTS FOR (m:Movie) REQUIRE m.title IS UNIQUE;
CREATE CONSTRAINT person_name IF NOT EXISTS FOR (p:Person) REQUIRE p.name IS UNIQUE;
CREATE CONSTRAINT genre_name IF NOT EXISTS FOR (g:Genre) REQUIRE g.name IS UNIQUE;
CREATE CONSTRAINT user_id IF NOT EXISTS FOR (u:User) REQUIRE u.userId IS UNIQUE;

UNWIND [
  {title: 'Alien', year: 1979,
    actors: [{name: 'Sigourney Weaver', billing: 1}, {name: 'Tom Skerritt', billing: 2}, {name: 'Ian Holm', billing: 3}]},
  {title: 'Apollo 13', year: 1995,
    actors: [{name: 'Tom Hanks', billing: 1}, {name: 'Bill Paxton', billing: 2}, {name: 'Kevin Bacon', billing: 3}]},
  {title: 'Back to the Future', year: 1985,
    actors: [{name: 'Michael J. Fox', billing: 1}, {name: 'Christopher Lloyd', billing: 2}, {name: 'Lea Thompson', billing: 3}]},
  {title: 'Bill & Ted\'s Excellent Adventure', year: 1989,
    actors: [{name: 'Keanu Reeves', billing: 1}, {name: 'Alex Winter', billing: 2}, {name: 'George Carlin', billing: 3}]},
  {title: 'Blade Runner', year: 1982,
    actors: [{name: 'Harrison Ford', billing: 1}, {name: 'Rutger Hauer', billing: 2}, {name: 'Sean Young', billing: 3}]},
  {title: 'Casablanca', year: 1942,
    actors: [{name: 'Humphrey Bogart', billing: 1}, {name: 'Ingrid Bergman', billing: 2}, {name: 'Paul Henreid', billing: 3}]},
  {title: 'Double Indemnity', year: 1944,
    actors: [{name: 'Fred MacMurray', billing: 1}, {name: 'Barbara Stanwyck', billing: 2}, {name: 'Edward G. Robinson', billing: 3}]},
  {title: 'Fight Club', year: 1999,
    actors: [{name: 'Brad Pitt', billing: 1}, {name: 'Edward Norton', billing: 2}, {name: 'Helena Bonham Carter', billing: 3}]},
  {title: 'Finding Nemo', year: 2003,
    actors: [{name: 'Albert Brooks', billing: 1}, {name: 'Ellen DeGeneres', billing: 2}, {name: 'Alexander Gould', billing: 3}]},
  {title: 'Forrest Gump', year: 1994,
    actors: [{name: 'Tom Hanks', billing: 1}, {name: 'Robin Wright', billing: 2}, {name: 'Gary Sinise', billing: 3}]},
  {title: 'Get Shorty', year: 1995,
    actors: [{name: 'John Travolta', billing: 1}, {name: 'Gene Hackman', billing: 2}, {name: 'Rene Russo', billing: 3}, {name: 'Danny DeVito', billing: 4}]},
  {title: 'Goodfellas', year: 1990,
    actors: [{name: 'Robert De Niro', billing: 1}, {name: 'Ray Liotta', billing: 2}, {name: 'Joe Pesci', billing: 3}]},
  {title: 'Grease', year: 1978,
    actors: [{name: 'John Travolta', billing: 1}, {name: 'Stockard Channing', billing: 2}, {name: 'Jeff Conaway', billing: 3}]},
  {title: 'Heat', year: 1995,
    actors: [{name: 'Al Pacino', billing: 1}, {name: 'Robert De Niro', billing: 2}, {name: 'Val Kilmer', billing: 3}]},
  {title: 'Ice Age: The Great Egg-Scapade', year: 2016,
    actors: [{name: 'Ray Romano', billing: 1}, {name: 'John Leguizamo', billing: 2}, {name: 'Denis Leary', billing: 3}, {name: 'Queen Latifah', billing: 4}]},
  {title: 'Jaws', year: 1975,
    actors: [{name: 'Roy Scheider', billing: 1}, {name: 'Robert Shaw', billing: 2}, {name: 'Richard Dreyfuss', billing: 3}]},
  {title: 'John Wick', year: 2014,
    actors: [{name: 'Keanu Reeves', billing: 1}, {name: 'Michael Nyqvist', billing: 2}, {name: 'Alfie Allen', billing: 3}, {name: 'Willem Dafoe', billing: 4}, {name: 'John Leguizamo', billing: 5}]},
  {title: 'Jurassic Park', year: 1993,
    actors: [{name: 'Sam Neill', billing: 1}, {name: 'Laura Dern', billing: 2}, {name: 'Jeff Goldblum', billing: 3}]},
  {title: 'Keanu', year: 2016,
    actors: [{name: 'Keegan-Michael Key', billing: 1}, {name: 'Jordan Peele', billing: 2}, {name: 'Method Man', billing: 3}, {name: 'Tiffany Haddish', billing: 4}]},
  {title: 'Man of Tai Chi', year: 2013,
    actors: [{name: 'Tiger Chen', billing: 1}, {name: 'Keanu Reeves', billing: 2}, {name: 'Karen Mok', billing: 3}]},
  {title: 'March of the Penguins', year: 2005,
    actors: [{name: 'Morgan Freeman', billing: 1}]},
  {title: 'Neighbors 2: Sorority Rising', year: 2016,
    actors: [{name: 'Seth Rogen', billing: 1}, {name: 'Zac Efron', billing: 2}, {name: 'Rose Byrne', billing: 3}, {name: 'Chloë Grace Moretz', billing: 4}]},
  {title: 'Psycho', year: 1960,
    actors: [{name: 'Anthony Perkins', billing: 1}, {name: 'Janet Leigh', billing: 2}, {name: 'Vera Miles', billing: 3}]},
  {title: 'Pulp Fiction', year: 1994,
    actors: [{name: 'John Travolta', billing: 1}, {name: 'Samuel L. Jackson', billing: 2}, {name: 'Uma Thurman', billing: 3}, {name: 'Bruce Willis', billing: 4}]},
  {title: 'Raiders of the Lost Ark', year: 1981,
    actors: [{name: 'Harrison Ford', billing: 1}, {name: 'Karen Allen', billing: 2}, {name: 'Paul Freeman', billing: 3}]},
  {title: 'Saving Private Ryan', year: 1998,
    actors: [{name: 'Tom Hanks', billing: 1}, {name: 'Tom Sizemore', billing: 2}, {name: 'Matt Damon', billing: 3}]},
  {title: 'Seven', year: 1995,
    actors: [{name: 'Brad Pitt', billing: 1}, {name: 'Morgan Freeman', billing: 2}, {name: 'Gwyneth Paltrow', billing: 3}]},
  {title: 'Singin\' in the Rain', year: 1952,
    actors: [{name: 'Gene Kelly', billing: 1}, {name: 'Debbie Reynolds', billing: 2}, {name: 'Donald O\'Connor', billing: 3}]},
  {title: 'Some Like It Hot', year: 1959,
    actors: [{name: 'Marilyn Monroe', billing: 1}, {name: 'Tony Curtis', billing: 2}, {name: 'Jack Lemmon', billing: 3}]},
  {title: 'Speed', year: 1994,
    actors: [{name: 'Keanu Reeves', billing: 1}, {name: 'Sandra Bullock', billing: 2}, {name: 'Dennis Hopper', billing: 3}]},
  {title: 'Spirited Away', year: 2001,
    actors: [{name: 'Rumi Hiiragi', billing: 1}, {name: 'Miyu Irino', billing: 2}]},
  {title: 'Star Wars', year: 1977,
    actors: [{name: 'Mark Hamill', billing: 1}, {name: 'Harrison Ford', billing: 2}, {name: 'Carrie Fisher', billing: 3}]},
  {title: 'The Big Lebowski', year: 1998,
    actors: [{name: 'Jeff Bridges', billing: 1}, {name: 'John Goodman', billing: 2}, {name: 'Julianne Moore', billing: 3}, {name: 'Steve Buscemi', billing: 4}]},
  {title: 'The Big Sleep', year: 1946,
    actors: [{name: 'Humphrey Bogart', billing: 1}, {name: 'Lauren Bacall', billing: 2}]},
  {title: 'The Godfather', year: 1972,
    actors: [{name: 'Marlon Brando', billing: 1}, {name: 'Al Pacino', billing: 2}, {name: 'James Caan', billing: 3}, {name: 'Diane Keaton', billing: 4}]},
  {title: 'The Good, the Bad and the Ugly', year: 1966,
    actors: [{name: 'Clint Eastwood', billing: 1}, {name: 'Eli Wallach', billing: 2}, {name: 'Lee Van Cleef', billing: 3}]},
  {title: 'The Matrix', year: 1999,
    actors: [{name: 'Keanu Reeves', billing: 1}, {name: 'Laurence Fishburne', billing: 2}, {name: 'Carrie-Anne Moss', billing: 3}, {name: 'Hugo Weaving', billing: 4}]},
  {title: 'The Matrix Reloaded', year: 2003,
    actors: [{name: 'Keanu Reeves', billing: 1}, {name: 'Laurence Fishburne', billing: 2}, {name: 'Carrie-Anne Moss', billing: 3}, {name: 'Hugo Weaving', billing: 4}]},
  {title: 'The Shawshank Redemption', year: 1994,
    actors: [{name: 'Tim Robbins', billing: 1}, {name: 'Morgan Freeman', billing: 2}]},
  {title: 'Top Gun', year: 1986,
    actors: [{name: 'Tom Cruise', billing: 1}, {name: 'Kelly McGillis', billing: 2}, {name: 'Val Kilmer', billing: 3}]},
  {title: 'Toy Story 3', year: 2010,
    actors: [{name: 'Tom Hanks', billing: 1}, {name: 'Tim Allen', billing: 2}, {name: 'Joan Cusack', billing: 3}]},
  {title: 'Unforgiven', year: 1992,
    actors: [{name: 'Clint Eastwood', billing: 1}, {name: 'Gene Hackman', billing: 2}, {name: 'Morgan Freeman', billing: 3}]},
  {title: 'Vertigo', year: 1958,
    actors: [{name: 'James Stewart', billing: 1}, {name: 'Kim Novak', billing: 2}]}
] AS film
MERGE (m:Movie {title: film.title})
SET m.year = film.year
WITH m, film
UNWIND film.actors AS actor
MERGE (p:Person {name: actor.name})
MERGE (p)-[r:ACTED_IN]->(m)
SET r.billing = actor.billing;

UNWIND [
  'Alfred Hitchcock', 'Andrew Stanton', 'Barry Sonnenfeld', 'Billy Wilder', 'Chad Stahelski',
  'David Fincher', 'Francis Ford Coppola', 'Frank Darabont', 'George Lucas', 'Hayao Miyazaki',
  'Howard Hawks', 'Jan de Bont', 'Joel Coen', 'Lana Wachowski', 'Lee Unkrich', 'Lilly Wachowski',
  'Luc Jacquet', 'Martin Scorsese', 'Michael Curtiz', 'Michael Mann', 'Nicholas Stoller', 'Peter Atencio',
  'Quentin Tarantino', 'Randal Kleiser', 'Ricardo Curtis', 'Ridley Scott', 'Robert Zemeckis', 'Ron Howard',
  'Sergio Leone', 'Stanley Donen', 'Stephen Herek', 'Steven Spielberg', 'Tony Scott'
] AS name
MERGE (:Person {name: name});

UNWIND [
  {title: 'Alien', directors: ['Ridley Scott']},
  {title: 'Apollo 13', directors: ['Ron Howard']},
  {title: 'Back to the Future', directors: ['Robert Zemeckis']},
  {title: 'Bill & Ted\'s Excellent Adventure', directors: ['Stephen Herek']},
  {title: 'Blade Runner', directors: ['Ridley Scott']},
  {title: 'Casablanca', directors: ['Michael Curtiz']},
  {title: 'Double Indemnity', directors: ['Billy Wilder']},
  {title: 'Fight Club', directors: ['David Fincher']},
  {title: 'Finding Nemo', directors: ['Andrew Stanton']},
  {title: 'Forrest Gump', directors: ['Robert Zemeckis']},
  {title: 'Get Shorty', directors: ['Barry Sonnenfeld']},
  {title: 'Goodfellas', directors: ['Martin Scorsese']},
  {title: 'Grease', directors: ['Randal Kleiser']},
  {title: 'Heat', directors: ['Michael Mann']},
  {title: 'Ice Age: The Great Egg-Scapade', directors: ['Ricardo Curtis']},
  {title: 'Jaws', directors: ['Steven Spielberg']},
  {title: 'John Wick', directors: ['Chad Stahelski']},
  {title: 'Jurassic Park', directors: ['Steven Spielberg']},
  {title: 'Keanu', directors: ['Peter Atencio']},
  {title: 'Man of Tai Chi', directors: ['Keanu Reeves']},
  {title: 'March of the Penguins', directors: ['Luc Jacquet']},
  {title: 'Neighbors 2: Sorority Rising', directors: ['Nicholas Stoller']},
  {title: 'Psycho', directors: ['Alfred Hitchcock']},
  {title: 'Pulp Fiction', directors: ['Quentin Tarantino']},
  {title: 'Raiders of the Lost Ark', directors: ['Steven Spielberg']},
  {title: 'Saving Private Ryan', directors: ['Steven Spielberg']},
  {title: 'Seven', directors: ['David Fincher']},
  {title: 'Singin\' in the Rain', directors: ['Gene Kelly', 'Stanley Donen']},
  {title: 'Some Like It Hot', directors: ['Billy Wilder']},
  {title: 'Speed', directors: ['Jan de Bont']},
  {title: 'Spirited Away', directors: ['Hayao Miyazaki']},
  {title: 'Star Wars', directors: ['George Lucas']},
  {title: 'The Big Lebowski', directors: ['Joel Coen']},
  {title: 'The Big Sleep', directors: ['Howard Hawks']},
  {title: 'The Godfather', directors: ['Francis Ford Coppola']},
  {title: 'The Good, the Bad and the Ugly', directors: ['Sergio Leone']},
  {title: 'The Matrix', directors: ['Lana Wachowski', 'Lilly Wachowski']},
  {title: 'The Matrix Reloaded', directors: ['Lana Wachowski', 'Lilly Wachowski']},
  {title: 'The Shawshank Redemption', directors: ['Frank Darabont']},
  {title: 'Top Gun', directors: ['Tony Scott']},
  {title: 'Toy Story 3', directors: ['Lee Unkrich']},
  {title: 'Unforgiven', directors: ['Clint Eastwood']},
  {title: 'Vertigo', directors: ['Alfred Hitchcock']}
] AS film
MATCH (m:Movie {title: film.title})
UNWIND film.directors AS name
MATCH (p:Person {name: name})
MERGE (p)-[:DIRECTED]->(m);

UNWIND [
  'Action', 'Adventure', 'Animation', 'Children', 'Comedy', 'Crime', 'Documentary', 'Drama', 'Fantasy',
  'Film-Noir', 'Horror', 'IMAX', 'Musical', 'Mystery', 'Romance', 'Sci-Fi', 'Thriller', 'War', 'Western'
] AS name
MERGE (:Genre {name: name});

UNWIND [
  {title: 'Alien', genres: ['Horror', 'Sci-Fi']},
  {title: 'Apollo 13', genres: ['Adventure', 'Drama', 'IMAX']},
  {title: 'Back to the Future', genres: ['Adventure', 'Comedy', 'Sci-Fi']},
  {title: 'Bill & Ted\'s Excellent Adventure', genres: ['Adventure', 'Comedy', 'Sci-Fi']},
  {title: 'Blade Runner', genres: ['Action', 'Sci-Fi', 'Thriller']},
  {title: 'Casablanca', genres: ['Drama', 'Romance']},
  {title: 'Double Indemnity', genres: ['Crime', 'Drama', 'Film-Noir']},
  {title: 'Fight Club', genres: ['Action', 'Crime', 'Drama', 'Thriller']},
  {title: 'Finding Nemo', genres: ['Adventure', 'Animation', 'Children', 'Comedy']},
  {title: 'Forrest Gump', genres: ['Comedy', 'Drama', 'Romance', 'War']},
  {title: 'Get Shorty', genres: ['Comedy', 'Crime', 'Thriller']},
  {title: 'Goodfellas', genres: ['Crime', 'Drama']},
  {title: 'Grease', genres: ['Comedy', 'Musical', 'Romance']},
  {title: 'Heat', genres: ['Action', 'Crime', 'Thriller']},
  {title: 'Ice Age: The Great Egg-Scapade', genres: ['Adventure', 'Animation', 'Children', 'Comedy']},
  {title: 'Jaws', genres: ['Action', 'Horror']},
  {title: 'John Wick', genres: ['Action', 'Thriller']},
  {title: 'Jurassic Park', genres: ['Action', 'Adventure', 'Sci-Fi', 'Thriller']},
  {title: 'Keanu', genres: ['Action', 'Comedy']},
  {title: 'Man of Tai Chi', genres: ['Action']},
  {title: 'March of the Penguins', genres: ['Documentary']},
  {title: 'Neighbors 2: Sorority Rising', genres: ['Comedy']},
  {title: 'Psycho', genres: ['Crime', 'Horror']},
  {title: 'Pulp Fiction', genres: ['Comedy', 'Crime', 'Drama', 'Thriller']},
  {title: 'Raiders of the Lost Ark', genres: ['Action', 'Adventure']},
  {title: 'Saving Private Ryan', genres: ['Action', 'Drama', 'War']},
  {title: 'Seven', genres: ['Mystery', 'Thriller']},
  {title: 'Singin\' in the Rain', genres: ['Comedy', 'Musical', 'Romance']},
  {title: 'Some Like It Hot', genres: ['Comedy', 'Crime']},
  {title: 'Speed', genres: ['Action', 'Romance', 'Thriller']},
  {title: 'Spirited Away', genres: ['Adventure', 'Animation', 'Fantasy']},
  {title: 'Star Wars', genres: ['Action', 'Adventure', 'Sci-Fi']},
  {title: 'The Big Lebowski', genres: ['Comedy', 'Crime']},
  {title: 'The Big Sleep', genres: ['Crime', 'Film-Noir', 'Mystery']},
  {title: 'The Godfather', genres: ['Crime', 'Drama']},
  {title: 'The Good, the Bad and the Ugly', genres: ['Action', 'Adventure', 'Western']},
  {title: 'The Matrix', genres: ['Action', 'Sci-Fi', 'Thriller']},
  {title: 'The Matrix Reloaded', genres: ['Action', 'Adventure', 'IMAX', 'Sci-Fi', 'Thriller']},
  {title: 'The Shawshank Redemption', genres: ['Crime', 'Drama']},
  {title: 'Top Gun', genres: ['Action', 'Romance']},
  {title: 'Toy Story 3', genres: ['Adventure', 'Animation', 'Children', 'Comedy', 'Fantasy', 'IMAX']},
  {title: 'Unforgiven', genres: ['Drama', 'Western']},
  {title: 'Vertigo', genres: ['Drama', 'Mystery', 'Romance', 'Thriller']}
] AS film
MATCH (m:Movie {title: film.title})
UNWIND film.genres AS name
MATCH (g:Genre {name: name})
MERGE (m)-[:IN_GENRE]->(g);

UNWIND [
  {user: 'ada', ratings: [{title: 'Keanu', rating: 5}, {title: 'The Matrix', rating: 5}, {title: 'The Matrix Reloaded', rating: 3}, {title: 'John Wick', rating: 5}, {title: 'Man of Tai Chi', rating: 3}, {title: 'Pulp Fiction', rating: 4}, {title: 'The Big Lebowski', rating: 4}, {title: 'Blade Runner', rating: 4}, {title: 'Alien', rating: 4}, {title: 'Fight Club', rating: 4}]},
  {user: 'ben', ratings: [{title: 'Keanu', rating: 5}, {title: 'Neighbors 2: Sorority Rising', rating: 5}, {title: 'The Matrix', rating: 4}, {title: 'Speed', rating: 4}, {title: 'Bill & Ted\'s Excellent Adventure', rating: 4}, {title: 'Back to the Future', rating: 4}, {title: 'Top Gun', rating: 3}, {title: 'Star Wars', rating: 5}, {title: 'Raiders of the Lost Ark', rating: 4}]},
  {user: 'chloe', ratings: [{title: 'Keanu', rating: 5}, {title: 'Ice Age: The Great Egg-Scapade', rating: 5}, {title: 'Forrest Gump', rating: 4}, {title: 'Finding Nemo', rating: 4}, {title: 'Jurassic Park', rating: 4}, {title: 'Spirited Away', rating: 5}]},
  {user: 'dev', ratings: [{title: 'Ice Age: The Great Egg-Scapade', rating: 5}, {title: 'The Matrix', rating: 5}, {title: 'The Matrix Reloaded', rating: 3}, {title: 'John Wick', rating: 4}, {title: 'Pulp Fiction', rating: 5}, {title: 'Get Shorty', rating: 3}, {title: 'Goodfellas', rating: 4}, {title: 'Heat', rating: 4}, {title: 'Seven', rating: 4}, {title: 'Fight Club', rating: 5}]},
  {user: 'eli', ratings: [{title: 'Neighbors 2: Sorority Rising', rating: 4}, {title: 'Some Like It Hot', rating: 4}, {title: 'Speed', rating: 3}, {title: 'Top Gun', rating: 4}, {title: 'Saving Private Ryan', rating: 4}, {title: 'Psycho', rating: 3}, {title: 'Apollo 13', rating: 4}]},
  {user: 'finn', ratings: [{title: 'Ice Age: The Great Egg-Scapade', rating: 4}, {title: 'The Matrix', rating: 4}, {title: 'Back to the Future', rating: 4}, {title: 'Toy Story 3', rating: 4}, {title: 'Bill & Ted\'s Excellent Adventure', rating: 3}, {title: 'Jaws', rating: 4}, {title: 'Jurassic Park', rating: 5}, {title: 'Star Wars', rating: 5}, {title: 'Raiders of the Lost Ark', rating: 5}]},
  {user: 'gita', ratings: [{title: 'Ice Age: The Great Egg-Scapade', rating: 5}, {title: 'Neighbors 2: Sorority Rising', rating: 5}, {title: 'Finding Nemo', rating: 4}, {title: 'Grease', rating: 3}, {title: 'Jurassic Park', rating: 4}, {title: 'Spirited Away', rating: 5}, {title: 'March of the Penguins', rating: 4}]},
  {user: 'hugo', ratings: [{title: 'Neighbors 2: Sorority Rising', rating: 4}, {title: 'The Big Lebowski', rating: 5}, {title: 'Pulp Fiction', rating: 4}, {title: 'Get Shorty', rating: 3}, {title: 'The Godfather', rating: 5}, {title: 'Goodfellas', rating: 5}, {title: 'Heat', rating: 4}, {title: 'John Wick', rating: 4}, {title: 'The Good, the Bad and the Ugly', rating: 4}]},
  {user: 'ines', ratings: [{title: 'Forrest Gump', rating: 5}, {title: 'Toy Story 3', rating: 4}, {title: 'Grease', rating: 3}, {title: 'Some Like It Hot', rating: 5}, {title: 'Singin\' in the Rain', rating: 4}, {title: 'Casablanca', rating: 5}, {title: 'Vertigo', rating: 4}, {title: 'The Shawshank Redemption', rating: 5}, {title: 'March of the Penguins', rating: 4}]},
  {user: 'jun', ratings: [{title: 'The Matrix', rating: 5}, {title: 'The Matrix Reloaded', rating: 3}, {title: 'Pulp Fiction', rating: 4}, {title: 'Back to the Future', rating: 5}, {title: 'Alien', rating: 5}, {title: 'Blade Runner', rating: 5}, {title: 'Seven', rating: 3}, {title: 'Star Wars', rating: 4}, {title: 'Spirited Away', rating: 4}]},
  {user: 'kofi', ratings: [{title: 'Forrest Gump', rating: 4}, {title: 'Back to the Future', rating: 4}, {title: 'Singin\' in the Rain', rating: 4}, {title: 'The Godfather', rating: 5}, {title: 'Jaws', rating: 4}, {title: 'Saving Private Ryan', rating: 5}, {title: 'Unforgiven', rating: 4}, {title: 'The Good, the Bad and the Ugly', rating: 5}, {title: 'The Shawshank Redemption', rating: 5}, {title: 'Apollo 13', rating: 4}]},
  {user: 'lena', ratings: [{title: 'Forrest Gump', rating: 4}, {title: 'The Big Lebowski', rating: 4}, {title: 'Some Like It Hot', rating: 4}, {title: 'The Godfather', rating: 5}, {title: 'Blade Runner', rating: 4}, {title: 'Unforgiven', rating: 4}, {title: 'The Shawshank Redemption', rating: 5}, {title: 'Casablanca', rating: 5}, {title: 'The Big Sleep', rating: 4}, {title: 'Double Indemnity', rating: 5}, {title: 'Psycho', rating: 4}, {title: 'Vertigo', rating: 5}]}
] AS opinion
MERGE (u:User {userId: opinion.user})
WITH u, opinion
UNWIND opinion.ratings AS one
MATCH (m:Movie {title: one.title})
MERGE (u)-[r:RATED]->(m)
SET r.rating = one.rating;
