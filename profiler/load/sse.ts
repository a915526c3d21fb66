/**
 * Parses server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html) from
 * chunks cut anywhere, even inside a character.
 */
/** Longer events are an error, as an event is buffered whole. */
const maxEventChars = 4_194_304

export class SseParser {
  private readonly decoder = new TextDecoder()
  private line = ''
  private data: string[] = []
  private afterCarriageReturn = false

  /** Data of every event that this chunk completes. */
  push(chunk: Uint8Array): string[] {
    const events: string[] = []
    let text = this.decoder.decode(chunk, { stream: true })
    if (this.afterCarriageReturn && text.startsWith('\n')) text = text.slice(1)
    if (text !== '') this.afterCarriageReturn = text.endsWith('\r')
    let from = 0
    for (const end of text.matchAll(/\r\n|\n|\r/g)) {
      this.endLine(this.line + text.slice(from, end.index), events)
      this.line = ''
      from = end.index + end[0].length
    }
    this.line += text.slice(from)
    if (this.line.length + this.data.reduce((sum, line) => sum + line.length, 0) > maxEventChars)
      throw new RangeError('an event without end')
    return events
  }

  private endLine(line: string, events: string[]): void {
    if (line === '') {
      if (this.data.length > 0) events.push(this.data.join('\n'))
      this.data = []
    } else if (line === 'data') this.data.push('')
    else if (line.startsWith('data:')) this.data.push(line.slice(line[5] === ' ' ? 6 : 5))
  }
}
