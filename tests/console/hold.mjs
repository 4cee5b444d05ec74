// Ends a scenario if something does not hold.
export function holds(is_so, what) {
  if (!is_so) throw new Error(what);
}
