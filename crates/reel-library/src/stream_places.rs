//! Where the packets of a stored transport stream are.

use reel_media::transport::{NULL_PACKET, PACKET_BYTES, SYMBOL_PACKETS, SYMBOL_PAYLOAD_BYTES};
use reel_volume::{Geometry, Location};

/// The places of the packets of a stream in a volume of this geometry. Packets and symbols are
/// counted from 0; a symbol is the payload of one RTP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamPlaces {
    geometry: Geometry,
}

/// The place of a symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SymbolPlace {
    /// The stripe of the object.
    pub stripe: u64,
    /// The matrix of the stripe, 0..M.
    pub matrix: usize,
    /// The row of the matrix, which is the position in the stripe: 0..D for symbols of the stream,
    /// D for those of the parity row.
    pub row: usize,
    /// The symbol of the row, 0..L: the column of ST 2022-1.
    pub column: usize,
}

impl StreamPlaces {
    /// `None` if a symbol of the geometry is too small for the payload of an RTP packet.
    pub fn new(geometry: Geometry) -> Option<StreamPlaces> {
        (geometry.symbol_bytes() >= SYMBOL_PAYLOAD_BYTES).then_some(StreamPlaces { geometry })
    }

    /// Places in which symbols have any length. See
    /// [`Stream::simulated`](crate::Stream::simulated).
    pub(crate) fn simulated(geometry: Geometry) -> StreamPlaces {
        StreamPlaces { geometry }
    }

    /// Bytes of a symbol as it is stored. What follows [`SYMBOL_PAYLOAD_BYTES`] is zeros.
    pub fn symbol_bytes(&self) -> usize {
        self.geometry.symbol_bytes()
    }

    /// Symbols of a stream of so many packets, with those that fill its last stripe.
    pub fn symbols(&self, packets: u64) -> u64 {
        self.object_bytes(packets) / self.symbol_bytes() as u64
    }

    /// Bytes of the object that holds a stream of so many packets: whole stripes.
    pub fn object_bytes(&self, packets: u64) -> u64 {
        let symbols = packets.div_ceil(SYMBOL_PACKETS as u64);
        let stripes = self.geometry.stripes(symbols * self.symbol_bytes() as u64);
        stripes * self.geometry.stripe_bytes() as u64
    }

    /// The first byte of a packet in the object.
    pub fn packet_offset(&self, packet: u64) -> u64 {
        let (symbol, within) = (packet / SYMBOL_PACKETS as u64, packet % SYMBOL_PACKETS as u64);
        symbol * self.symbol_bytes() as u64 + within * PACKET_BYTES as u64
    }

    /// The place of a symbol of the stream.
    pub fn symbol_place(&self, symbol: u64) -> SymbolPlace {
        let at = self.geometry.locate(symbol * self.symbol_bytes() as u64);
        let Location { stripe, position, matrix, byte } = at;
        SymbolPlace { stripe, matrix, row: position, column: byte / self.symbol_bytes() }
    }

    /// The symbol at a place; `None` for parity and for places that the geometry does not have.
    pub fn symbol_at(&self, place: SymbolPlace) -> Option<u64> {
        let byte = place.column.checked_mul(self.symbol_bytes())?;
        let SymbolPlace { stripe, matrix, row, .. } = place;
        let offset = self.geometry.object_offset(Location { stripe, position: row, matrix, byte })?;
        Some(offset / self.symbol_bytes() as u64)
    }

    /// The symbol of the parity row that protects the column of a symbol.
    pub fn parity_place(&self, symbol: u64) -> SymbolPlace {
        SymbolPlace { row: self.geometry.data_rows(), ..self.symbol_place(symbol) }
    }
}

/// Null packets that follow so many packets up to the end of a stripe.
pub(crate) fn padding(places: &StreamPlaces, packets: u64) -> impl Iterator<Item = [u8; PACKET_BYTES]> {
    let all = places.symbols(packets) * SYMBOL_PACKETS as u64;
    (packets..all).map(|_| NULL_PACKET)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use reel_volume::GeometryFields;

    prop_compose! {
        fn any_places()(
            symbol_bytes in 1316_usize..1500,
            row_symbols in 1_usize..40,
            unit_rows in 1_usize..9,
            data_rows in 1_usize..8,
            spare in 0_usize..3,
        ) -> StreamPlaces {
            let members = data_rows + 1 + spare;
            let fields = GeometryFields { symbol_bytes, row_symbols, unit_rows, data_rows, parity_rows: 1, members };
            StreamPlaces::new(Geometry::new(fields).expect("valid")).expect("large enough")
        }
    }

    proptest! {
        #[test]
        fn packets_and_places_are_one_to_one(places in any_places(), packet in 0_u64..1_000_000) {
            let symbol = packet / 7;
            let place = places.symbol_place(symbol);
            prop_assert_eq!(places.symbol_at(place), Some(symbol));
            let offset = places.packet_offset(packet);
            let at = places.geometry.locate(offset);
            prop_assert_eq!((at.stripe, at.matrix, at.position), (place.stripe, place.matrix, place.row));
            prop_assert_eq!(at.byte, place.column * places.symbol_bytes() + (packet % 7) as usize * 188);
            let last = places.geometry.locate(offset + 187);
            prop_assert_eq!((last.stripe, last.matrix, last.position), (at.stripe, at.matrix, at.position));
            prop_assert!(offset + 188 <= places.object_bytes(packet + 1));
        }

        #[test]
        fn rtp_packets_run_along_the_rows_of_a_matrix(places in any_places(), symbol in 0_u64..100_000) {
            let (l, d) = (places.geometry.row_symbols(), places.geometry.data_rows());
            let place = places.symbol_place(symbol);
            let within = (symbol % (l * d) as u64) as usize;
            prop_assert_eq!((place.row, place.column), (within / l, within % l));
            let matrix = symbol / (l * d) as u64;
            let of_stripe = places.geometry.unit_rows() as u64;
            prop_assert_eq!((place.stripe, place.matrix as u64), (matrix / of_stripe, matrix % of_stripe));
            let parity = places.parity_place(symbol);
            prop_assert_eq!((parity.row, parity.column), (d, place.column));
            prop_assert_eq!(places.symbol_at(parity), None);
        }

        #[test]
        fn padding_fills_whole_stripes(places in any_places(), packets in 1_u64..20_000) {
            let bytes = places.object_bytes(packets);
            let stripe_bytes = places.geometry.stripe_bytes() as u64;
            prop_assert_eq!(bytes % stripe_bytes, 0);
            prop_assert!(bytes - places.packet_offset(packets - 1) <= stripe_bytes);
            let padded = packets + padding(&places, packets).count() as u64;
            prop_assert_eq!(padded, places.symbols(packets) * 7);
        }
    }

    #[test]
    fn small_symbols_hold_no_stream() {
        let fields = GeometryFields { symbol_bytes: 1315, ..GeometryFields::cmaf(5) };
        assert_eq!(StreamPlaces::new(Geometry::new(fields).expect("valid")), None);
    }
}
