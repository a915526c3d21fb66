import { withoutSecrets } from '../trials/secrets.ts'

/** Progress while a server loads. @param reason the server's own */
export const notReadyYet = (reason: string): string =>
  `the server is not ready yet: ${withoutSecrets(reason)}`
