import { redactSecrets } from '../trials/secrets.ts'

/** Progress while a server loads. @param reason the server's own */
export const notReadyYet = (reason: string): string =>
  `the server is not ready yet: ${redactSecrets(reason)}`

/** Progress of a trial that waits in its turn. @param what the server's reason, or what it needs */
export const waitingWords = (trial: number, what: string, how: 'loading' | 'room'): string =>
  how === 'loading'
    ? `trial ${trial}: ${notReadyYet(what)}`
    : `trial ${trial} waits for ${redactSecrets(what)}`
