import { mkdirSync } from 'node:fs'

/** Modes of what only its owner may see: stores, and what trials write (filled files, their predictors' own words). */
export const privateFile = 0o600
export const privateFolder = 0o700

export const makePrivateFolder = (path: string): string => {
  mkdirSync(path, { recursive: true, mode: privateFolder })
  return path
}
