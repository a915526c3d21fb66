/** Lists the models of a server. */

import { parseUntrustedJson } from '../bounded-reader.ts'
import type { Problem } from '../profiler-errors.ts'
import { formatUrl, parseServerAddress, resolveServerPath } from '../server-address.ts'
import { fetchAnswer, get } from './http.ts'
import type { ModelList, ProtocolOptions } from './protocol-module.ts'
import { type ProtocolName, protocolTable } from './protocol-table.ts'

/** Deadline of a request for a list, ms. Assumed. */
const listTimeoutMs = 5_000

/** Unique names; empty where the server has no such list. Rejects only when the signal aborts. */
export async function listModels(
  name: ProtocolName,
  url: string,
  options: ProtocolOptions,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const { listModels: listOverGrpc, modelLists = [] } = await protocolTable[name].load()
  if (listOverGrpc !== undefined) {
    try {
      return [...new Set(await listOverGrpc(url, options, signal))]
    } catch {
      signal.throwIfAborted()
      return [] // The server has no such list.
    }
  }
  const address = parseServerAddress(url)
  if (address === undefined) return []
  const fetchList = async ({ method, path }: ModelList): Promise<unknown> => {
    const fullPath = resolveServerPath(address, path, path)
    try {
      if (method === 'GET') {
        const { status, text } = await get(formatUrl(address, fullPath), options, signal)
        return status === 200 ? parseUntrustedJson(text) : undefined
      }
      const { headers, http2, tls } = options
      const { origin } = address
      const target = { url: origin, path: fullPath, headers, http2, tls, timeoutMs: listTimeoutMs }
      const emptyBody = { body: Buffer.from('{}'), contentType: 'application/json' }
      return parseUntrustedJson(await fetchAnswer(name, target, emptyBody, signal))
    } catch {
      signal.throwIfAborted()
      return undefined // The server has no such list.
    }
  }
  for (const list of modelLists) {
    const names = list.parseNames(await fetchList(list))
    if (names.length > 0) return [...new Set(names)]
  }
  return []
}

/** Why a model is not served by a server that lists others; undefined where it may be. */
export async function explainMissingModel(
  name: ProtocolName,
  url: string,
  model: string,
  options: ProtocolOptions,
  signal: AbortSignal,
): Promise<Problem | undefined> {
  const names = await listModels(name, url, options, signal)
  if (names.length === 0 || names.includes(model)) return undefined
  return {
    what: `${url} lists no model '${model}': it has ${names.join(', ')}`,
    hint: 'name one of them: --model NAME (model in an experiment file)',
  }
}
