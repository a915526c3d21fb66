/** Formats one example request for `tune config`. */

import type { RequestBody } from '../../../../profiler/model/target.ts'
import { readBodies } from '../../../../profiler/protocols/payload-pool.ts'
import { protocolTable } from '../../../../profiler/protocols/protocol-table.ts'
import { quoteExcerpt } from '../../../../profiler/protocols/refusals.ts'
import { buildExampleRequest } from '../../../../profiler/protocols/request-format.ts'
import type { Experiment } from '../../../config/types.ts'

/**
 * Path and first body of a request in two lines. Undefined for protocols whose requests depend on
 * metadata of the server.
 * @throws PayloadError
 */
export async function formatRequestExample({
  predictor,
  load: { payload },
}: Experiment): Promise<string | undefined> {
  if (predictor.kind === 'builtin' || !protocolTable[predictor.protocol].needsPath) return undefined
  const { path, body, contentType, form } = predictor
  const [first] =
    payload.kind === 'file'
      ? await readBodies(payload)
      : [await buildExampleRequest({ template: body, contentType, form }, payload)]
  return `A request: POST ${path}, ${first!.contentType.split(';')[0]}\n  ${formatBody(first!)}`
}

/** Formats a body in one line; files and long values by their length. */
function formatBody({ body, contentType }: RequestBody): string {
  const [, boundary] = /boundary=(\S+)/.exec(contentType) ?? []
  const bytes = Buffer.from(body as Uint8Array)
  if (boundary === undefined) return formatValue(bytes)
  const parts = bytes.toString('latin1').split(`--${boundary}`).slice(1, -1)
  return parts
    .map((part) => {
      const end = part.indexOf('\r\n\r\n')
      const head = Buffer.from(part.slice(0, end), 'latin1').toString()
      const [, name, file] = / name="([^"]*)"(?:; filename="([^"]*)")?/.exec(head) ?? []
      const type = /^content-type: (.*)$/im.exec(head)?.[1]?.trim()
      const content = Buffer.from(part.slice(end + 4, -2), 'latin1')
      if (file === undefined)
        return `${name}=${formatValue(content)}${type === undefined ? '' : ` (${type})`}`
      return `${name}=@${file} (${type}, ${formatByteCount(content)})`
    })
    .join(', ')
}

const formatByteCount = (bytes: Buffer): string => `${bytes.length.toLocaleString('en-US')} bytes`

function formatValue(bytes: Buffer): string {
  if (bytes.includes(0)) return formatByteCount(bytes)
  return quoteExcerpt(
    bytes.toString().replace(/[A-Za-z0-9+/=]{60,}/g, (long) => `${long.slice(0, 20)}…`),
  )
}
