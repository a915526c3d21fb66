/** Inputs that were once read wrongly, by reader. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

export const corpusFolder = fileURLToPath(new URL('./corpus', import.meta.url))

export function kept(reader: string): { readonly file: string; readonly input: Buffer }[] {
  const folder = join(corpusFolder, reader)
  return existsSync(folder)
    ? readdirSync(folder).map((file) => ({ file, input: readFileSync(join(folder, file)) }))
    : []
}
