/**
 * Why a running server never reports that it is ready: it requires credentials, redirects, or does
 * not know the path.
 */

import { clientCertificateHint } from '../load/tls.ts'
import { hrefOf, pathBelow, serverAddress } from '../server-address.ts'
import { get } from './http.ts'
import { whyNoModel } from './model-list.ts'
import type { ProtocolOptions } from './protocol-module.ts'
import { type ProtocolName, protocolTable } from './protocol-table.ts'
import { asksForCertificateIn, headerHint, redirectHint } from './refusals.ts'

/** A path that no server has. */
export const madeUpPath = '/tune-asks-for-no-such-path'

/**
 * Describes the answer of a server that waiting will not make ready, and what to do. Undefined
 * where it may still become ready. Rejects only when the signal aborts.
 */
export async function whyNever(
  name: ProtocolName,
  url: string,
  model: string,
  options: ProtocolOptions,
  signal: AbortSignal,
): Promise<{ readonly what: string; readonly hint: string } | undefined> {
  const { transport, readyPath, needsPath, load } = protocolTable[name]
  const address = serverAddress(url)
  if (transport === 'grpc') return whyNoModel(name, url, model, options, signal)
  if (address === undefined) return undefined
  const callPath = options.path ?? (await load()).callPath!(model)
  const at = (own: string) => hrefOf(address, pathBelow(address, callPath, own))
  const answerTo = async (own: string) => {
    const { status, text, location } = await get(at(own), options, signal)
    return { status, text: text.replaceAll(pathBelow(address, callPath, own), ''), location }
  }
  try {
    const path = options.healthPath ?? readyPath(model)
    const answer = await answerTo(path)
    if (answer.status >= 300 && answer.status < 400 && answer.location !== undefined)
      return {
        what: `${at(path)} redirects (${answer.status}) to ${answer.location}`,
        hint: redirectHint(at(path), answer.location),
      }
    const what = `${at(path)} answers ${answer.status}`
    if (answer.status === 401 || answer.status === 403) return { what, hint: headerHint }
    if (asksForCertificateIn(answer)) return { what, hint: clientCertificateHint }
    if (answer.status === 200 || answer.status === 400)
      return whyNoModel(name, url, model, options, signal)
    if (answer.status !== 404 && answer.status !== 405) return undefined
    const madeUp = await answerTo(madeUpPath)
    const isLikeMadeUp = (given: typeof answer) =>
      given.status === madeUp.status && given.text === madeUp.text
    // Ray Serve answers every path like that until its applications are deployed.
    if (/routes/i.test(answer.text)) return undefined
    if (!isLikeMadeUp(answer)) return whyNoModel(name, url, model, options, signal)
    if (needsPath && isLikeMadeUp(await answerTo(callPath)))
      return {
        what: `${what}, and so does ${at(callPath)}, as to any path that it does not know`,
        hint: 'name the path of the inference call (--path, path in an experiment file); and --health-path, where another says that it is ready',
      }
    const hint = `is it ${name}? Where it says by another path that it is ready: --health-path (healthPath in an experiment file)`
    return { what: `${what}, as to any path that it does not know`, hint }
  } catch {
    signal.throwIfAborted()
    return undefined // Not up, or not yet.
  }
}
