// The parts of Asio and Beast that are compiled once (their headers only
// declare them: BOOST_ASIO_SEPARATE_COMPILATION).

#include <boost/asio/impl/src.hpp>
#include <boost/asio/ssl/impl/src.hpp>
#include <boost/beast/src.hpp>
