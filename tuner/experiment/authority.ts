import { readText } from '../../profiler/bounded-reader.ts'

/** The certificates of a file. Throws an Error that names it. */
export function readAuthority(path: string): string {
  let pem: string
  try {
    pem = readText(path, 'document')
  } catch (error) {
    throw new Error(`the authority's certificate cannot be read: ${(error as Error).message}`)
  }
  if (!pem.includes('-----BEGIN CERTIFICATE-----')) throw new Error(`${path} holds no certificate`)
  return pem
}

/** What is wrong with saying how certificates are checked, for a URL that shows none; undefined for one that does. */
export const noCertificate = (url: string | undefined): { readonly what: string; readonly hint: string } | undefined =>
  /^(https|grpcs):/i.test(url ?? '')
    ? undefined
    : { what: `${url} has no certificate to check`, hint: 'TLS is https://, for a gRPC protocol grpcs:// too' }
