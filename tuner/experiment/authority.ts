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

/** What is wrong with how certificates are checked, where none is shown, and what to do. */
export const noCertificate = (url: string | undefined): string => `${url} has no certificate to check`
export const tlsUrls = 'TLS is https://, for a gRPC protocol grpcs:// too'
