// What would reach the network past a proxy is not there. The browser's own switches are the second wall.
for (const name of ["RTCPeerConnection", "webkitRTCPeerConnection", "RTCDataChannel", "RTCIceTransport",
                    "RTCDtlsTransport", "RTCSctpTransport", "RTCIceCandidate", "WebTransport"])
  delete globalThis[name];
