/** Seals nothing, and opens only what stands in its own place. */
export const plainVault = {
  seal: (plain: string, place: string): string => `${place}|${plain}`,
  open(sealed: string, place: string): string {
    if (!sealed.startsWith(`${place}|`)) throw new Error("sealed for another place");
    return sealed.slice(place.length + 1);
  },
};
