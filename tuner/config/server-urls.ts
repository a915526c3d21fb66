/** Running servers by URL: one, or several replicas that share the load. */
import { protocolTable } from '../../profiler/protocols/protocol-table.ts'
import {
  isGrpcUrl,
  isSocketUrl,
  parseServerAddress,
  pathlessHint,
  type ServerAddress,
  socketHint,
} from '../../profiler/server-address.ts'
import type { RequestSettings, UrlTemplate } from '../../trials/launchers/template.ts'
import { findReferences, replaceReferences } from '../../trials/secrets.ts'
import type { Context } from './context.ts'
import type { ExperimentEntries } from './schema/experiment-schema.ts'
import { resolveTls } from './tls-files.ts'
import type { Path } from './yaml-file.ts'

export function resolveUrlTemplate(context: Context, common: RequestSettings): UrlTemplate {
  const { entries, report } = context
  const { url, urls, http2 } = entries.predictor ?? {}
  if (url !== undefined && urls !== undefined)
    report(['predictor', 'urls'], 'both url and urls', 'add url to urls, with its weight')
  checkUrl(context, ['predictor', 'url'], findServerUrl(entries.predictor), common)
  urls?.slice(1).forEach((one, i) => {
    checkUrl(context, ['predictor', 'urls', i + 1], one.url, common)
  })
  const weighted = urls?.map((one) => ({ url: one.url, weight: one.weight ?? 1 }))
  return {
    kind: 'url',
    url: findServerUrl(entries.predictor) ?? '',
    ...(weighted !== undefined && weighted.length > 1 && { urls: weighted }),
    ...common,
    http2,
    tls: resolveTls(context),
  }
}

/** Finds the URL of the server, or of the first replica. */
export const findServerUrl = ({
  url,
  urls,
}: NonNullable<ExperimentEntries['predictor']> = {}): string | undefined => url ?? urls?.[0]?.url

function checkUrl(
  { report }: Context,
  at: Path,
  url: string | undefined,
  { protocol }: RequestSettings,
): void {
  const isGrpc = protocolTable[protocol].transport === 'grpc'
  const address =
    url === undefined ? undefined : parseAddress(url, isGrpc ? /^(https?|grpcs?):/i : /^https?:/i)
  if (url === undefined || address === undefined)
    report(
      at,
      `'${url}' is not an http URL`,
      url !== undefined && isGrpcUrl(url)
        ? `protocol ${protocol} is spoken over HTTP: write http://, or leave the protocol out`
        : `write http://127.0.0.1:8000; for a gRPC protocol grpc://127.0.0.1:8001; ${socketHint}`,
    )
  else if (isGrpc && address !== 'unknown' && address.path !== '/')
    report(at, `'${url}' has the path ${address.path}`, pathlessHint)
}

/**
 * Parses a URL or socket address; 'unknown' if it is a reference to a secret. Undefined for
 * anything else.
 */
function parseAddress(text: string, schemes: RegExp): ServerAddress | 'unknown' | undefined {
  if (text.startsWith('${')) return findReferences(text).length > 0 ? 'unknown' : undefined
  const sample = replaceReferences(text, () => '1')
  return schemes.test(sample) || isSocketUrl(sample) ? parseServerAddress(sample) : undefined
}
