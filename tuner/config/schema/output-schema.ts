/** Schema of `send`: receivers of a run while it goes on. */
import { z } from 'zod'
import { type OutputKind, outputKinds } from '../names.ts'
import type { OutputAddress, OutputTarget } from '../values/output-target.ts'
import { createCodec, optional, text } from './schema-parts.ts'

const isHttp = (url: string): boolean => /^https?:\/\//i.test(url) && URL.canParse(url)

const address = text('a URL').refine((url) => url.includes('${') || isHttp(url), {
  error: 'not an http URL',
  params: {
    hint: 'write http://HOST:PORT/PATH: for a collector http://HOST:4318, for Prometheus http://HOST:9090/api/v1/otlp, for MLflow http://HOST:5000',
  },
})

const target: z.ZodType<OutputAddress, string | OutputAddress> = z.union(
  [
    createCodec(address, (url): OutputAddress => ({ url })),
    z.strictObject({
      url: address.describe('URL of the receiver'),
      headers: optional(
        z.record(z.string(), z.string(), { error: 'expected name: value pairs' }),
        'headers of every message, e.g. {Authorization: Bearer ${env:TOKEN}}',
      ),
    }),
  ],
  { error: 'expected a URL, or {url, headers}' },
)

const descriptions: Readonly<Record<OutputKind, string>> = {
  mlflow: 'URL of an MLflow tracking server, e.g. http://mlflow:5000',
  otlp: 'URL of an OTLP/HTTP receiver, e.g. http://collector:4318; for Prometheus http://prometheus:9090/api/v1/otlp',
}

type SendEntries = { readonly [K in OutputKind]?: OutputAddress }

export const send = z.strictObject(
  Object.fromEntries(
    outputKinds.map((kind) => [kind, optional(target, descriptions[kind])]),
  ) as Record<OutputKind, z.ZodOptional<typeof target>>,
)

export const listOutputTargets = (entries: SendEntries = {}): OutputTarget[] =>
  outputKinds.flatMap((kind) => (entries[kind] === undefined ? [] : [{ kind, ...entries[kind] }]))
