/** Server-side dry runs: validate an object without creating it. */
import type { Api } from '../api/api.ts'
import type { Json } from './manifests.ts'

/**
 * Paths of fields that the server does not know ('spec.containers[0].imagePullPolice'). Servers
 * since 1.25 reject them; older ones drop them silently from the answer.
 * @throws ApiError with the server's validation errors
 */
export async function requestDryRun(
  api: Api,
  path: string,
  body: Json,
  signal?: AbortSignal,
): Promise<string[]> {
  const query = { dryRun: 'All', fieldValidation: 'Strict' }
  const accepted = await api.request<Json>('POST', path, { query, body, signal })
  return listDroppedFields(body, accepted)
}

/** Paths of `sent` that are missing in `got`. Null and empty values are no loss. */
export function listDroppedFields(sent: unknown, got: unknown, path = ''): string[] {
  if (Array.isArray(sent))
    return Array.isArray(got)
      ? sent.flatMap((item, i) => listDroppedFields(item, got[i], `${path}[${i}]`))
      : listLostField(sent, path)
  if (typeof sent !== 'object' || sent === null)
    return got === undefined ? listLostField(sent, path) : []
  if (typeof got !== 'object' || got === null) return listLostField(sent, path)
  return Object.entries(sent).flatMap(([key, value]) =>
    listDroppedFields(value, (got as Json)[key], path === '' ? key : `${path}.${key}`),
  )
}

const listLostField = (value: unknown, path: string): string[] => {
  const empty =
    value === null ||
    value === '' ||
    value === false ||
    value === 0 ||
    (typeof value === 'object' && Object.keys(value).length === 0)
  return empty ? [] : [path]
}
