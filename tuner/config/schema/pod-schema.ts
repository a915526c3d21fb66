/** Schema of the pod of one server on a cluster. */
import { z } from 'zod'
import { count, optional, text } from './schema-parts.ts'

export const podKeys = {
  pod: optional(
    z.record(z.string(), z.unknown(), {
      error: 'expected a pod template with metadata and spec',
    }),
    'pod template (metadata, spec) of your own server; tune sets the tuned values in its container and changes nothing else. Without an image: overlay for the pod of the built-in predictor, e.g. {spec: {tolerations: [...]}}',
  ),
  container: optional(text('a name'), 'container of the pod to tune; default: the only one'),
  port: optional(
    count(1, 'a port'),
    'port of the server; default: the first port of the container',
  ),
}
