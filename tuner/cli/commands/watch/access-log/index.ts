/** Access logs: detects the format, and parses each line into a request. */
export { type LogFields, parseFieldFlags } from './fields.ts'
export { type LogShape, logShapes } from './log-record.ts'
export { type LogFormat, type LoggedRequest, parseRequest } from './logged-request.ts'
export { describeFormat, LogSample, parseStoredFormat } from './recognise-format.ts'
