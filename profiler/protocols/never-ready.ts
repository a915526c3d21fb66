/**
 * Why a running server never reports that it is ready: it requires credentials, redirects, or does
 * not know the path.
 */

import { clientCertificateHint } from '../load/tls.ts'
import type { Problem } from '../profiler-errors.ts'
import { formatUrl, parseServerAddress, resolveServerPath } from '../server-address.ts'
import { get } from './http.ts'
import { explainMissingModel } from './model-list.ts'
import type { ProtocolOptions } from './protocol-module.ts'
import { type ProtocolName, protocolTable } from './protocol-table.ts'
import { buildRedirectHint, headerHint, isCertificateMissing } from './refusals.ts'

/** A path that no server has, to compare answers with. */
export const nonexistentPath = '/tune-asks-for-no-such-path'

/**
 * Describes the answer of a server that waiting will not make ready, and what to do. Undefined
 * where it may still become ready. Rejects only when the signal aborts.
 */
export async function explainNeverReady(
  name: ProtocolName,
  url: string,
  model: string,
  options: ProtocolOptions,
  signal: AbortSignal,
): Promise<Problem | undefined> {
  const { transport, readyPath, needsPath, load } = protocolTable[name]
  const address = parseServerAddress(url)
  if (transport === 'grpc') return explainMissingModel(name, url, model, options, signal)
  if (address === undefined) return undefined
  const callPath = options.path ?? (await load()).callPath!(model)
  const buildUrl = (serverPath: string) =>
    formatUrl(address, resolveServerPath(address, callPath, serverPath))
  const fetchPath = async (serverPath: string) => {
    const { status, text, location } = await get(buildUrl(serverPath), options, signal)
    return {
      status,
      // Error pages repeat the path; without it, answers to different paths can be compared.
      text: text.replaceAll(resolveServerPath(address, callPath, serverPath), ''),
      location,
    }
  }
  try {
    const path = options.healthPath ?? readyPath(model)
    const answer = await fetchPath(path)
    if (answer.status >= 300 && answer.status < 400 && answer.location !== undefined)
      return {
        what: `${buildUrl(path)} redirects (${answer.status}) to ${answer.location}`,
        hint: buildRedirectHint(buildUrl(path), answer.location),
      }
    const what = `${buildUrl(path)} answers ${answer.status}`
    if (answer.status === 401 || answer.status === 403) return { what, hint: headerHint }
    if (isCertificateMissing(answer)) return { what, hint: clientCertificateHint }
    // The path exists, so the model may be what is missing.
    if (answer.status === 200 || answer.status === 400)
      return explainMissingModel(name, url, model, options, signal)
    if (answer.status !== 404 && answer.status !== 405) return undefined
    const missing = await fetchPath(nonexistentPath)
    const isLikeMissing = (other: typeof answer) =>
      other.status === missing.status && other.text === missing.text
    // Ray Serve answers every path with a message about routes until its applications are deployed.
    if (/routes/i.test(answer.text)) return undefined
    if (!isLikeMissing(answer)) return explainMissingModel(name, url, model, options, signal)
    if (needsPath && isLikeMissing(await fetchPath(callPath)))
      return {
        what: `${what}, and so does ${buildUrl(callPath)}, as for any unknown path`,
        hint: 'set the path of the inference call (--path, path in an experiment file), and that of the readiness check, if it has one (--health-path)',
      }
    const hint = `does it speak ${name}? If its readiness check has another path: --health-path (healthPath in an experiment file)`
    return { what: `${what}, as for any unknown path`, hint }
  } catch {
    signal.throwIfAborted()
    return undefined // Not up, or not yet.
  }
}
