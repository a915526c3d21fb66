/** The server does not speak the protocol as expected, or does not serve this model. */
export class ProtocolError extends Error {
  constructor(
    /** Its name. */
    readonly protocol: string,
    message: string,
    readonly hint?: string,
    /**
     * The server speaks another protocol, or listens on another port than it was given, or wants to
     * know who asks, or knows no such path or model, or it understood the request and refuses what
     * is in it, or its certificate is not trusted, or it leaves the first request without an
     * answer, or requests that come together get other answers than alone, or it is still loading.
     */
    readonly why?:
      | 'other-protocol'
      | 'other-port'
      | 'denied'
      | 'unknown-call'
      | 'refused'
      | 'untrusted'
      | 'answers-differ'
      | 'no-answer'
      | 'not-ready',
  ) {
    super(message)
    this.name = 'ProtocolError'
  }
}

/** A payload file or template that cannot be used. */
export class PayloadError extends Error {
  constructor(
    message: string,
    readonly hint?: string,
  ) {
    super(message)
    this.name = 'PayloadError'
  }
}

/** The load generator's own process failed, or was asked for something it cannot do. */
export class GeneratorError extends Error {
  constructor(
    message: string,
    readonly hint?: string,
  ) {
    super(message)
    this.name = 'GeneratorError'
  }
}
