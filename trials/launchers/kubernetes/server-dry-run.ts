/** Server-side dry runs: what the API server would say of an object, without making it. */
import type { Api } from './api.ts'
import type { Json } from './manifests.ts'

/**
 * Fields of an object that the server does not know, by path
 * ('spec.containers[0].imagePullPolice'). Servers from 1.25 on refuse them; older ones drop them in
 * silence, and the answer shows it.
 * @throws ApiError with everything the server has against the object
 */
export async function dryRun(
  api: Api,
  path: string,
  body: Json,
  signal?: AbortSignal,
): Promise<string[]> {
  const query = { dryRun: 'All', fieldValidation: 'Strict' }
  const accepted = await api.request<Json>('POST', path, { query, body, signal })
  return dropped(body, accepted)
}

/** Paths of `sent` that are missing in `got`. Null and empty values are no loss. */
export function dropped(sent: unknown, got: unknown, path = ''): string[] {
  if (Array.isArray(sent))
    return Array.isArray(got)
      ? sent.flatMap((item, i) => dropped(item, got[i], `${path}[${i}]`))
      : lost(sent, path)
  if (typeof sent !== 'object' || sent === null) return got === undefined ? lost(sent, path) : []
  if (typeof got !== 'object' || got === null) return lost(sent, path)
  return Object.entries(sent).flatMap(([key, value]) =>
    dropped(value, (got as Json)[key], path === '' ? key : `${path}.${key}`),
  )
}

const lost = (value: unknown, path: string): string[] => {
  const empty =
    value === null ||
    value === '' ||
    value === false ||
    value === 0 ||
    (typeof value === 'object' && Object.keys(value).length === 0)
  return empty ? [] : [path]
}
