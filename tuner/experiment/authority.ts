import { readFileSync } from 'node:fs'

/** The certificates of a file. Throws an Error that names it. */
export function readAuthority(path: string): string {
  let pem: string
  try {
    pem = readFileSync(path, 'utf8')
  } catch (error) {
    throw new Error(`the authority's certificate cannot be read: ${(error as Error).message}`)
  }
  if (!pem.includes('-----BEGIN CERTIFICATE-----')) throw new Error(`${path} holds no certificate`)
  return pem
}
