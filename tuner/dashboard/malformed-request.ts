/** A request of the dashboard that cannot be read; the message names what is wrong with it. */
export class MalformedRequest extends Error {
  /** As Fastify's own errors have it. */
  readonly statusCode = 400
}
