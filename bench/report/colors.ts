const colors: Readonly<Record<string, string>> = {
  "delegates alone": "#80868b",
  floor: "#bdc1c6",
  "floor with duties": "#9aa0a6",
  Plexus: "#1a73e8",
  "Plexus, status after": "#8ab4f8",
  "floor of standalone": "#80cbc4",
  "Plexus standalone": "#129eaf",
  "Plexus standalone, further calls": "#4ecde6",
  "Multus thin": "#f29900",
  "Multus thick": "#d93025",
};

/** The colour of a contender, by its name, in every chart. */
export function colorOf(name: string): string {
  return colors[name] ?? "#9334e6";
}
