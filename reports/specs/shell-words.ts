/** Words of a shell script. */
import { oneLine } from './manifest.ts'

/** As it stands where a shell takes it for one plain word, else in single quotes. */
export const quotedWord = (word: string): string =>
  /^[\w./:=@%+,-]+$/.test(word) ? word : `'${oneLine(word).replaceAll("'", `'\\''`)}'`
