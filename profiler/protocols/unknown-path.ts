/** Why a server that runs never says that it is ready: it wants to know who asks, or knows nothing of the path. */
import { get, headerHint } from './http.ts'
import type { ProtocolOptions } from './protocol-module.ts'
import { type ProtocolName, protocolTable } from './protocol-table.ts'

/** No server has it. */
const madeUpPath = '/tune-asks-for-no-such-path'

/** Its answer and what to do about it; undefined where it may yet become ready, or says nothing over HTTP. Rejects only when the signal aborts. */
export async function whyNever(
  name: ProtocolName,
  url: string,
  model: string,
  options: ProtocolOptions,
  signal: AbortSignal,
): Promise<{ readonly what: string; readonly hint: string } | undefined> {
  const { transport, readyPath } = protocolTable[name]
  if (transport === 'grpc') return undefined
  const path = options.healthPath ?? readyPath(model)
  const answerTo = async (asked: string) => {
    const { status, text } = await get(new URL(asked, url).href, options, signal)
    return { status, text: text.replaceAll(asked, '') }
  }
  try {
    const answer = await answerTo(path)
    const what = `${new URL(path, url).href} answers ${answer.status}`
    if (answer.status === 401 || answer.status === 403) return { what, hint: headerHint }
    if (answer.status !== 404 && answer.status !== 405) return undefined
    const madeUp = await answerTo(madeUpPath)
    if (madeUp.status !== answer.status || madeUp.text !== answer.text) return undefined
    const hint = `is it ${name}? Where it says by another path that it is ready: --health-path (healthPath in an experiment file)`
    return { what: `${what}, as to any path that it does not know`, hint }
  } catch {
    signal.throwIfAborted()
    return undefined // Not up, or not yet.
  }
}
